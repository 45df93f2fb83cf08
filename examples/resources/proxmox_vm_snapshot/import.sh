# By VMID and name.
terraform import proxmox_vm_snapshot.before_upgrade 100/before-upgrade
