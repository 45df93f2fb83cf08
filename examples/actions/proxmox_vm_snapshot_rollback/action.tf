resource "proxmox_vm" "web" {
  node  = "pve1"
  name  = "web"
  disks = { scsi0 = { storage = "local-zfs", size = "8G" } }
}

resource "proxmox_vm_snapshot" "before_upgrade" {
  vmid = proxmox_vm.web.vmid
  name = "before-upgrade"
}

# terraform apply -invoke=action.proxmox_vm_snapshot_rollback.undo_upgrade
action "proxmox_vm_snapshot_rollback" "undo_upgrade" {
  config {
    vmid     = proxmox_vm_snapshot.before_upgrade.vmid
    uuid     = proxmox_vm_snapshot.before_upgrade.uuid # no other VM that gets the id
    name     = proxmox_vm_snapshot.before_upgrade.name
    snaptime = proxmox_vm_snapshot.before_upgrade.snaptime # no other snapshot of that name
    start    = true
  }
}
