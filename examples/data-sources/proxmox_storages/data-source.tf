data "proxmox_storages" "disks" {
  node    = "pve1"
  content = "images"
}

output "storages" {
  value = data.proxmox_storages.disks.ids
}
