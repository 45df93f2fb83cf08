moved {
  from = proxmox_virtual_environment_vm.k3s
  to   = proxmox_vm.k3s
}

moved {
  from = proxmox_virtual_environment_vm.linked
  to   = proxmox_vm.linked
}

moved {
  from = proxmox_virtual_environment_vm.example
  to   = proxmox_vm.example
}

moved {
  from = proxmox_virtual_environment_vm.koko
  to   = proxmox_vm.koko
}

moved {
  from = proxmox_virtual_environment_vm.talos
  to   = proxmox_vm.talos
}

moved {
  from = proxmox_virtual_environment_vm.template
  to   = proxmox_vm.template
}

moved {
  from = proxmox_virtual_environment_vm.windows
  to   = proxmox_vm.windows
}

moved {
  from = proxmox_virtual_environment_vm.router
  to   = proxmox_vm.router
}

moved {
  from = proxmox_virtual_environment_vm.storage
  to   = proxmox_vm.storage
}

moved {
  from = proxmox_virtual_environment_vm.hardware
  to   = proxmox_vm.hardware
}

moved {
  from = proxmox_virtual_environment_vm.kept
  to   = proxmox_vm.kept
}

moved {
  from = proxmox_virtual_environment_vm.devices
  to   = proxmox_vm.devices
}

moved {
  from = proxmox_virtual_environment_vm.elsewhere
  to   = proxmox_vm.elsewhere
}

moved {
  from = proxmox_virtual_environment_vm2.second
  to   = proxmox_vm.second
}

moved {
  from = proxmox_vm.short
  to   = proxmox_vm.third
}

moved {
  from = proxmox_virtual_environment_cloned_vm.long
  to   = proxmox_vm.cloned_long
}

moved {
  from = proxmox_cloned_vm.short
  to   = proxmox_vm.cloned_short
}
