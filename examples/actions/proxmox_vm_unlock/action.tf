resource "proxmox_vm" "web" {
  node  = "pve1"
  name  = "web"
  disks = { scsi0 = { storage = "local-zfs", size = "8G" } }
}

# After a backup that died: terraform apply -invoke=action.proxmox_vm_unlock.backup
action "proxmox_vm_unlock" "backup" {
  config {
    vmid = proxmox_vm.web.vmid
    uuid = proxmox_vm.web.uuid # no other VM that gets the id
    lock = "backup"
  }
}
