resource "proxmox_vm" "web" {
  node  = "pve1"
  name  = "web-1"
  disks = { scsi0 = { storage = "local-zfs", size = "8G" } }
}

resource "proxmox_vm_snapshot" "before_upgrade" {
  vmid        = proxmox_vm.web.vmid
  uuid        = proxmox_vm.web.uuid
  name        = "before-upgrade"
  description = "Debian 12, before the upgrade to 13"
}
