# Another user made this machine by hand, long ago. Only the attributes below are managed.

resource "proxmox_vm" "existing" {
  node   = "pve1"
  vmid   = 8000
  name   = "existing"
  memory = { size = 1024 }

  disks = {
    scsi0 = { storage = "local-lvm", size = "4G" }
  }

  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
}
