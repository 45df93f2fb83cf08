# A machine that somebody else made, by hand, long ago. Only what stands here is managed.

resource "proxmox_vm" "existing" {
  node   = "pve1"
  vmid   = 8000
  name   = "existing"
  memory = { size = 1024 }
}
