terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "mapping" {
  description = "Resource mapping of the datacenter (Datacenter, Resource Mappings, PCI Devices) that names the card on each node."
  type        = string
  default     = "gpu"
}

resource "proxmox_vm" "inference" {
  node = "pve1" # one of the nodes that the mapping has a card on
  name = "inference-1"

  ostype   = "l26"
  machine  = "q35" # needed for pcie
  bios     = "ovmf"
  efi_disk = { storage = "local-zfs", type = "4m", pre_enrolled_keys = false } # no Secure Boot: it refuses unsigned drivers

  cpu    = { type = "host", cores = 8 }
  memory = { size = 16384, balloon = 0 } # the card needs all of it, all the time
  scsihw = "virtio-scsi-single"
  agent  = { enabled = true }

  pci = {
    hostpci0 = { mapping = var.mapping, pcie = true }
  }

  disks = {
    scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2", size = "100G", discard = true, iothread = true }
  }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    storage   = "local-zfs"
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "dhcp" } }
  }
  boot_order = ["scsi0"]
}
