terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "image" {
  description = "Disk of the machine, made by qemu-img on its host. The one beside this file is empty, to try it with."
  type        = string
  default     = "web.qcow2"
}

variable "checksum" {
  description = "What sha256sum says of it there."
  type        = string
  default     = "4dd99d4ca43e8700cd6637bfa03964a672dafee11ceea7c457a1feb520a2308c"
}

# Compared with the file here before anything is sent, and with what has arrived by the node.
resource "proxmox_image" "web" {
  node        = "pve1"
  storage     = "local" # with content type "import"
  source_file = var.image
  checksum    = var.checksum
}

resource "proxmox_vm" "web" {
  node = "pve1"
  name = "web"

  ostype  = "l26"
  machine = "q35"
  cpu     = { type = "host", cores = 2 }
  memory  = { size = 2048 }

  # virtio0 is vda in the guest, as it was.
  disks      = { virtio0 = { storage = "local-lvm", import_from = proxmox_image.web.volume, discard = true } }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0", macaddr = "52:54:00:8A:3C:11" } }
  smbios     = { uuid = "7c1e33b0-94a5-4f0e-8c6d-0b7a3f2d9e55" }
  boot_order = ["virtio0"]
}
