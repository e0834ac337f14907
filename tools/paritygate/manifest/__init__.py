"""What people write: manifests, gate files, registries and project file, read, checked and resolved into cases."""
