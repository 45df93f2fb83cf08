resource "proxmox_disk" "data" {
  node        = "pve1"
  storage     = "local-zfs"
  size        = "10G"
  name        = "database-data"
  description = "The database of the shop"

  # Where it leaves the configuration together with the VM's slot, the VM lets go of it first.
  lifecycle { create_before_destroy = true }
}
