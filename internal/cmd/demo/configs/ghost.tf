# Nobody has the id 4711, but a volume with that number lies about.

resource "proxmox_vm" "ghost" {
  node = "pve1"
  vmid = 4711
}
