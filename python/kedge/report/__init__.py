"""``kedge report``: a job as one page of pictures, from what its store and its agents know.

``gather`` asks the tools and reads what was kept (``looks``), and makes of it one account of the job (``model``). Pure functions
draw that (``page``, and the pictures that it is made of). ``live`` serves the same page while the job runs. Standard library only.
"""
