terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

# The node downloads the image to a storage with content type "import", and verifies it.
resource "proxmox_image" "debian" {
  node    = "pve1"
  storage = "local"
  url     = "https://cloud.debian.org/images/cloud/bookworm/20250814-2204/debian-12-genericcloud-amd64-20250814-2204.qcow2"
  # From SHA512SUMS beside the image. This one is of what "make sim" has in its place: write the published one here.
  checksum = "a13e960839f8478057ac50f4e64a22b50a82711ba7d0a8d5448c8b08b84cbd7c593a00ad065a6d67330cfc188ddedee054bc6a747359770fc2a7808b20e97aaa"
}

# No template is needed: the disk is made from the image.
resource "proxmox_vm" "debian" {
  node = "pve1"
  name = "debian-1"

  ostype = "l26"
  scsihw = "virtio-scsi-single"
  cpu    = { type = "x86-64-v2-AES", cores = 2 }
  memory = { size = 2048 }
  agent  = { enabled = true }

  wait_for = { agent = false } # the image has no agent until you install it

  disks = {
    scsi0 = {
      storage     = "local-zfs"
      import_from = proxmox_image.debian.volume
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

  lifecycle { create_before_destroy = true } # another image and its VM are there before this one goes
}
