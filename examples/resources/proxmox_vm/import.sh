# By VMID, wherever in the cluster it is, or by node and VMID to be sure that it is there.
terraform import proxmox_vm.web 100
terraform import proxmox_vm.web pve1/100
