"""Who discovered which chemical element and when: the undisputed cases, put together by hand.

Left out are elements known since antiquity, and those for which the books disagree on the year or
on the person: helium, oxygen, cobalt, bromine, tellurium, lutetium, and also magnesium (Black or
Davy), manganese (Scheele or Gahn), molybdenum (Scheele or Hjelm), chromium (1797 or 1798), hafnium
(1922 or 1923), rhenium (Ogawa or the Noddacks) and others of this kind.
"""

from __future__ import annotations

PEOPLE = """
Henry Cavendish|British|1731|1810
Johan August Arfwedson|Swedish|1792|1841
Humphry Davy|British|1778|1829
Joseph Louis Gay-Lussac|French|1778|1850
Louis Jacques Thénard|French|1777|1857
Daniel Rutherford|Scottish|1749|1819
Henri Moissan|French|1852|1907
William Ramsay|British|1852|1916
Morris Travers|British|1872|1961
Lord Rayleigh|British|1842|1919
Hans Christian Ørsted|Danish|1777|1851
Carl Wilhelm Scheele|Swedish|1742|1786
Lars Fredrik Nilson|Swedish|1840|1899
William Gregor|British|1761|1817
Axel Fredrik Cronstedt|Swedish|1722|1765
Paul-Émile Lecoq de Boisbaudran|French|1838|1912
Clemens Winkler|German|1838|1904
Robert Bunsen|German|1811|1899
Gustav Kirchhoff|German|1824|1887
Martin Heinrich Klaproth|German|1743|1817
Charles Hatchett|British|1765|1847
Carlo Perrier|Italian|1886|1948
Emilio Segrè|Italian|1905|1989
Dale Corson|American|1914|2012
Kenneth MacKenzie|American|1912|2002
Ferdinand Reich|German|1799|1882
Theodor Richter|German|1824|1898
Bernard Courtois|French|1777|1838
Carl Gustaf Mosander|Swedish|1797|1858
Carl Auer von Welsbach|Austrian|1858|1929
Jacob Marinsky|American|1918|2005
Lawrence Glendenin|American|1918|2008
Charles Coryell|American|1912|1971
Jean Charles Galissard de Marignac|Swiss|1817|1894
Per Teodor Cleve|Swedish|1840|1905
Anders Gustaf Ekeberg|Swedish|1767|1813
Juan José Elhuyar|Spanish|1754|1796
Fausto Elhuyar|Spanish|1755|1833
William Crookes|British|1832|1919
Marie Curie|Polish-French|1867|1934
Pierre Curie|French|1859|1906
Marguerite Perey|French|1909|1975
Edwin McMillan|American|1907|1991
Philip Abelson|American|1913|2004
"""
"""Name, nationality, and the years of birth and death."""

DISCOVERIES = """
H|1766|Henry Cavendish
Li|1817|Johan August Arfwedson
B|1808|Humphry Davy, Joseph Louis Gay-Lussac, Louis Jacques Thénard
N|1772|Daniel Rutherford
F|1886|Henri Moissan
Ne|1898|William Ramsay, Morris Travers
Na|1807|Humphry Davy
Al|1825|Hans Christian Ørsted
Cl|1774|Carl Wilhelm Scheele
Ar|1894|Lord Rayleigh, William Ramsay
K|1807|Humphry Davy
Ca|1808|Humphry Davy
Sc|1879|Lars Fredrik Nilson
Ti|1791|William Gregor
Ni|1751|Axel Fredrik Cronstedt
Ga|1875|Paul-Émile Lecoq de Boisbaudran
Ge|1886|Clemens Winkler
Kr|1898|William Ramsay, Morris Travers
Rb|1861|Robert Bunsen, Gustav Kirchhoff
Zr|1789|Martin Heinrich Klaproth
Nb|1801|Charles Hatchett
Tc|1937|Carlo Perrier, Emilio Segrè
In|1863|Ferdinand Reich, Theodor Richter
I|1811|Bernard Courtois
Xe|1898|William Ramsay, Morris Travers
Cs|1860|Robert Bunsen, Gustav Kirchhoff
Pr|1885|Carl Auer von Welsbach
Nd|1885|Carl Auer von Welsbach
Pm|1945|Jacob Marinsky, Lawrence Glendenin, Charles Coryell
Sm|1879|Paul-Émile Lecoq de Boisbaudran
Gd|1880|Jean Charles Galissard de Marignac
Tb|1843|Carl Gustaf Mosander
Dy|1886|Paul-Émile Lecoq de Boisbaudran
Er|1843|Carl Gustaf Mosander
Tm|1879|Per Teodor Cleve
Yb|1878|Jean Charles Galissard de Marignac
Ta|1802|Anders Gustaf Ekeberg
W|1783|Juan José Elhuyar, Fausto Elhuyar
Tl|1861|William Crookes
Po|1898|Marie Curie, Pierre Curie
At|1940|Dale Corson, Kenneth MacKenzie, Emilio Segrè
Fr|1939|Marguerite Perey
Ra|1898|Marie Curie, Pierre Curie
U|1789|Martin Heinrich Klaproth
Np|1940|Edwin McMillan, Philip Abelson
"""
"""Symbol, year of discovery, and those credited with it."""
