terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

# No template is needed: the disk is made from an image in a storage with content type "import".
resource "proxmox_vm" "ubuntu" {
  node = "pve1"
  name = "ubuntu-1"

  ostype = "l26"
  scsihw = "virtio-scsi-single"
  cpu    = { type = "x86-64-v2-AES", cores = 2 }
  memory = { size = 2048 }
  agent  = { enabled = true }

  disks = {
    scsi0 = {
      storage     = "local-zfs"
      import_from = "local:import/disk.qcow2"
      size        = "20G" # at least the size of the image
      discard     = true
    }
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
  cloud_init = {
    storage   = "local-zfs"
    slot      = "ide2"
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "dhcp" } }
  }
  boot_order = ["scsi0"]
}
