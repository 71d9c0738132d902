"""``kedge run``: launches an application on some of the nodes there are, and keeps it running until it is finished.

One loop (``supervisor``): launch, watch, and after a failure leave out the dead nodes, take spares and launch again. What it
does to the outside stands behind small objects: ``launchers`` make command lines, ``shells`` run one on a node, ``nodes``
know who is dead, ``progress`` knows the newest complete versions, ``allocation`` how much time is left. Standard library only.
"""
