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
  default     = "100G"
}

resource "proxmox_vm" "database" {
  name  = "database-1"
  clone = { vmid = 9000, full = true, storage = "local-zfs" }

  cpu    = { cores = 4 }
  memory = { size = 8192 }

  disks = {
    # The system, from the template; grown.
    scsi0 = { size = "20G" }
    # The database, on another storage, with a thread of its own.
    scsi1 = { storage = "local-lvm", size = var.data_size, discard = true, ssd = true, iothread = true, serial = "data" }
    # Dumps: large and slow, and not in the backups.
    scsi2 = { storage = "shared-nfs", format = "qcow2", size = "500G", backup = false, serial = "dumps", throttle = { mbps_wr = 100 } }
  }

  cloud_init = {
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "dhcp" } }
  }

  protection = false # the template has it
}

output "volumes" {
  value = { for slot, disk in proxmox_vm.database.disks : slot => disk.volume }
}
