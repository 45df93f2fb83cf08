terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "data_size" {
  description = "Size of the database's disk. It can grow, never shrink."
  type        = string
  default     = "20G"
}

variable "name" {
  description = "Name of the database's VM."
  type        = string
  default     = "database-1"
}

# What must not be lost. It belongs to no VM.
resource "proxmox_disk" "data" {
  node        = "pve1"
  storage     = "local-zfs"
  size        = var.data_size
  name        = "database-data"
  description = "The database of the shop"

  lifecycle { create_before_destroy = true } # the VM lets go of it before it is destroyed
}

# The VM, which can be replaced at any time.
resource "proxmox_vm" "database" {
  node  = "pve1"
  name  = var.name
  clone = { vmid = 9000, full = true, storage = "local-zfs" }

  disks = {
    scsi0 = { size = "20G" }
    scsi1 = {
      imported_disk = { volume = proxmox_disk.data.volume }
      discard       = true
      serial        = "data"
    }
  }

  protection = false # the template has it
}

output "volume" {
  value = proxmox_disk.data.volume
}
