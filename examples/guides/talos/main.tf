terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "iso" {
  description = "Image of Talos for the platform nocloud, which reads the cloud-init drive."
  type        = string
  default     = "local:iso/talos-nocloud-amd64.iso"
}

locals {
  controlplanes = {
    cp-1 = { node = "pve1", ip = "10.0.0.21" }
    cp-2 = { node = "pve2", ip = "10.0.0.22" }
    cp-3 = { node = "pve1", ip = "10.0.0.23" }
  }
}

resource "proxmox_vm" "controlplane" {
  for_each = local.controlplanes

  node = each.value.node
  name = each.key
  tags = ["controlplane", "talos"]

  ostype = "l26"
  scsihw = "virtio-scsi-single"
  cpu    = { type = "x86-64-v2-AES", cores = 2 } # Talos needs x86-64-v2 or better
  memory = { size = 4096, balloon = 0 }
  agent  = { enabled = false } # true only with the extension qemu-guest-agent in the image

  disks = {
    scsi0 = { storage = "local-zfs", size = "20G", discard = true, iothread = true }
  }
  cdroms     = { ide0 = { file = var.iso } }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  boot_order = ["scsi0", "ide0"] # the empty disk is passed over, until Talos is on it

  cloud_init = {
    storage     = "local-zfs"
    slot        = "ide2"
    type        = "nocloud"
    addresses   = { net0 = { ipv4 = "${each.value.ip}/24", gateway4 = "10.0.0.1" } }
    nameservers = ["10.0.0.1"]
  }
}

# The addresses are known without an agent, because they are configured.
output "endpoints" {
  value = [for vm in values(local.controlplanes) : vm.ip]
}
