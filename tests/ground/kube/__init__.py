"""Kubernetes without containers: a real API server (`server`), and a kubelet that runs pods as processes of this
machine (`kubelet`)."""
