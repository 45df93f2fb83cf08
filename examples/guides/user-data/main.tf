terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "greeting" {
  type    = string
  default = "Hello"
}

# The disc that cloud-init reads. Its name on the storage has the beginning of its checksum in it.
resource "proxmox_cloud_init_iso" "web" {
  node    = "pve1"
  storage = "local" # with content type "iso"
  name    = "web-1"

  user_data = <<-EOT
    #cloud-config
    hostname: web-1
    users:
      - name: ops
        sudo: ALL=(ALL) NOPASSWD:ALL
        shell: /bin/bash
        ssh_authorized_keys:
          - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org
    packages: [nginx, qemu-guest-agent]
    write_files:
      - path: /var/www/html/index.html
        content: ${var.greeting}
    runcmd:
      - systemctl start qemu-guest-agent
  EOT

  network_config = <<-EOT
    version: 2
    ethernets:
      all:
        match: { name: "e*" }
        dhcp4: true
  EOT
}

resource "proxmox_image" "debian" {
  node    = "pve1"
  storage = "local" # with content type "import"
  url     = "https://cloud.debian.org/images/cloud/bookworm/20250814-2204/debian-12-genericcloud-amd64-20250814-2204.qcow2"
  # From SHA512SUMS beside the image. This one is of what "make sim" has in its place: write the published one here.
  checksum = "a13e960839f8478057ac50f4e64a22b50a82711ba7d0a8d5448c8b08b84cbd7c593a00ad065a6d67330cfc188ddedee054bc6a747359770fc2a7808b20e97aaa"
}

# No cloud_init: the disc in ide3 takes the place of the drive that PVE would make.
resource "proxmox_vm" "web" {
  node = "pve1"
  name = "web-1"

  ostype = "l26"
  scsihw = "virtio-scsi-single"
  cpu    = { type = "x86-64-v2-AES", cores = 2 }
  memory = { size = 2048 }
  agent  = { enabled = true }

  disks = {
    scsi0 = { storage = "local-zfs", import_from = proxmox_image.debian.volume, size = "20G" }
  }
  cdroms     = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  boot_order = ["scsi0"]
}
