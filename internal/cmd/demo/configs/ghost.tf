# No guest has the id 4711, but there is a volume with that number.

resource "proxmox_vm" "ghost" {
  node = "pve1"
  vmid = 4711
}
