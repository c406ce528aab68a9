"""The processes that run scheduled functions. docs/clusters.md draws them, and says which promise each part stands for.

    supervisor -> dispatcher -> workers        `manage.py cluster`: one of each, and as many workers as are needed

The module django_q2 is the only one that knows django-q2, whose worker loop the workers run.
"""
