# Two machines: one from scratch with disks on two storages, one cloned from a template and configured by cloud-init.

resource "proxmox_vm" "db" {
  node        = "pve1"
  vmid        = 201
  name        = "db"
  description = "made by the demonstration"
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  cpu         = { type = "host", cores = 4 }
  memory      = { size = 4096 }

  disks = {
    scsi0 = { storage = "local-zfs", size = "8G", discard = true }
    scsi1 = { storage = "local-lvm", size = "16G" }
  }

  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
}

resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 202
  name  = "web"
  tags  = ["demo"]
  pool  = "web"
  clone = { vmid = 9000, full = true }

  protection = false
  memory     = { size = 2048 }

  disks = {
    scsi0 = { size = "10G" }
  }

  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }

  cloud_init = {
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUWfVZMyWxb3ChGAKPF2O9vRIsmR9R9jVRn1HUeSYOH ops@example.org"]
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
}
