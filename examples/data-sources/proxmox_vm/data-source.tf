data "proxmox_vm" "template" {
  vmid = 9000
}

output "template" {
  value = data.proxmox_vm.template.name
}
