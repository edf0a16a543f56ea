"""Make the documentation site: `python -m tools.site` writes pages from the code and runs Sphinx.

`environments` and `methods` write a page for each registered id and credit method, `extras` the
table of what can be installed, `check` looks through the finished site. What they write goes to
build/, beside a copy of docs/; nothing of it is committed but the measurements of `extras`.
"""
