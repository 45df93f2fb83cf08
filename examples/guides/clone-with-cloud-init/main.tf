terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "ssh_key" {
  description = "Public key of the user ops."
  type        = string
  default     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"
}

resource "proxmox_vm" "web" {
  name = "web-1"
  pool = "web"

  # The template's disks, network and options come along; only what is written here differs.
  clone = {
    vmid    = 9000
    full    = true
    storage = "local-zfs"
  }

  cpu    = { cores = 2 }
  memory = { size = 2048 }
  disks = {
    scsi0 = { size = "10G" } # grown from the template's size
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
  cloud_init = {
    user        = "ops"
    ssh_keys    = [var.ssh_key]
    addresses   = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
    nameservers = ["10.0.0.1"]
  }

  protection = false # the template has it
}
