"""Make the documentation site: `python -m tools.site` writes pages from the code and runs Sphinx.

`environments` and `methods` write a page for each registered id and credit method, with what
`measured` takes from tables of docs/. `picture` draws the episode of the home page, `extras` writes
the table of what can be installed, and `check` looks through the finished site. What they write
goes to build/, beside a copy of docs/. Committed are only the measurements of `extras` and
docs/episode.svg.
"""
