resource "proxmox_disk" "data" {
  node        = "pve1"
  storage     = "local-zfs"
  size        = "10G"
  name        = "database-data"
  description = "The database of the shop"
}
