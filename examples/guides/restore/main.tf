terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "archive" {
  description = "The backup: a file of vzdump, or a snapshot on a Proxmox Backup Server such as pbs:backup/vm/700/2026-01-01T00:00:00Z."
  type        = string
  default     = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"
}

resource "proxmox_vm" "web" {
  name = "web-restored"
  node = "pve1"

  restore = { archive = var.archive, storage = "local-zfs" }

  # What is configured is enforced once the data is there; everything else is as it was backed up.
  disks = {
    scsi0 = { size = "4G", discard = true }
  }
  onboot     = false
  protection = false # the VM that was backed up had it

  power_state = "running"
}

output "uuid" {
  value = proxmox_vm.web.uuid
}
