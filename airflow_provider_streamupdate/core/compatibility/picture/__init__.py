"""A picture of an app's queries: `pictured` (picture.py) puts verdicts and figures on the graph of its plans, `placed`
(places.py) says where each node goes, and `drawn` (drawing.py) draws it as text. The page draws the same.
"""
