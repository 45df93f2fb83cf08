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

# A VM from a cloud image that never runs: PVE turns its disks into base images.
resource "proxmox_vm" "template" {
  node     = "pve1"
  name     = "debian-template"
  tags     = ["debian", "golden"]
  template = true

  ostype = "l26"
  scsihw = "virtio-scsi-single"
  cpu    = { type = "x86-64-v2-AES", cores = 2 }
  memory = { size = 2048 }
  agent  = { enabled = true } # if the image has it
  serial = { serial0 = { device = "socket" } }
  vga    = { type = "serial0" } # cloud images talk to the serial port

  disks = {
    scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2", discard = true }
  }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = { storage = "local-zfs" }
  boot_order = ["scsi0"]
}

resource "proxmox_vm" "web" {
  count = 2

  name = "web-${count.index + 1}"
  tags = ["web"]

  # The reference makes the order: clones come after their template and go before it. Linked clones share its base image.
  clone = { vmid = proxmox_vm.template.vmid, full = false }

  disks = { scsi0 = { size = "20G" } }
  cloud_init = {
    user      = "ops"
    ssh_keys  = [var.ssh_key]
    addresses = { net0 = { ipv4 = "10.0.0.${count.index + 11}/24", gateway4 = "10.0.0.1" } }
  }
}

output "vmids" {
  value = proxmox_vm.web[*].vmid
}
