# By node and VMID of the VM that holds it.
terraform import proxmox_disk.data pve1/120
