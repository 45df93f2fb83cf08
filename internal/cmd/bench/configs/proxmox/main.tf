terraform {
  required_providers {
    proxmox = { source = "terraform-proxmox/proxmox" }
  }
}

provider "proxmox" {
  endpoint       = var.endpoint
  api_token      = var.api_token
  ca_certificate = var.ca_certificate
}

resource "proxmox_vm" "plain" {
  count    = var.plain
  node     = var.spread && count.index % 2 == 1 ? "pve2" : "pve1"
  name     = "plain-${count.index}"
  tags     = var.generation == 0 ? ["bench"] : ["again-${var.generation}", "bench"]
  ostype   = "l26"
  scsihw   = "virtio-scsi-single"
  cpu      = { type = "x86-64-v2-AES", cores = 2 }
  memory   = { size = 2048 }
  disks    = { scsi0 = { storage = "local-lvm", size = "8G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
}

resource "proxmox_vm" "clone" {
  count    = var.clones
  node     = "pve1"
  name     = "clone-${count.index}"
  tags     = ["bench"]
  clone    = { vmid = 9000, full = true }
  onboot   = false
  agent    = { enabled = false }
  cpu      = { type = "x86-64-v2-AES", cores = 2 }
  memory   = { size = 2048 }
  disks    = { scsi0 = { size = "4G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    user        = "ops"
    ssh_keys    = [var.ssh_key]
    addresses   = { net0 = { ipv4 = "dhcp" } }
    nameservers = ["192.0.2.53"]
  }
}
