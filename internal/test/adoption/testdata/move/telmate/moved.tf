moved {
  from = proxmox_vm_qemu.k3s_master
  to   = proxmox_vm.k3s_master
}

moved {
  from = proxmox_vm_qemu.k8s_master
  to   = proxmox_vm.k8s_master
}

moved {
  from = proxmox_vm_qemu.controlplane
  to   = proxmox_vm.controlplane
}

moved {
  from = proxmox_vm_qemu.worker
  to   = proxmox_vm.worker
}

moved {
  from = proxmox_vm_qemu.linked
  to   = proxmox_vm.linked
}

moved {
  from = proxmox_vm_qemu.windows
  to   = proxmox_vm.windows
}

moved {
  from = proxmox_vm_qemu.devices
  to   = proxmox_vm.devices
}

moved {
  from = proxmox_vm_qemu.database
  to   = proxmox_vm.database
}

moved {
  from = proxmox_vm_qemu.pxe
  to   = proxmox_vm.pxe
}

