# By node and volume, of a file whose name has twelve digits of its checksum in it.
terraform import proxmox_image.debian pve1/local:import/debian-12-3f2a9c1b7d04.qcow2
