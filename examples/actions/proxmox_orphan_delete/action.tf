# One item, as data.proxmox_orphans lists it: terraform apply -invoke=action.proxmox_orphan_delete.disk
action "proxmox_orphan_delete" "disk" {
  config {
    kind = "volume"
    id   = "local-zfs:vm-777-disk-0"
    node = "pve1"
  }
}
