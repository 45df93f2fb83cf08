data "proxmox_vms" "templates" {
  template = true
}

output "templates" {
  value = { for vm in data.proxmox_vms.templates.vms : vm.vmid => vm.name }
}
