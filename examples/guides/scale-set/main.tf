terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "size" {
  description = "How many workers there are."
  type        = number
  default     = 3
}

variable "retired" {
  description = "Workers that go although there are others after them, such as [\"worker-02\"]."
  type        = list(string)
  default     = []
}

resource "proxmox_vm" "worker" {
  # Keyed by name: one that goes shifts no other.
  for_each = toset([for n in range(var.size) : format("worker-%02d", n + 1) if !contains(var.retired, format("worker-%02d", n + 1))])

  name  = each.key
  tags  = ["worker"]
  clone = { vmid = 9000, full = true, storage = "local-zfs" }

  cpu    = { cores = 2 }
  memory = { size = 2048 }
  disks  = { scsi0 = { size = "8G" } }
  cloud_init = {
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "dhcp" } }
  }

  protection = false # the template has it
}

output "vmids" {
  value = { for name, vm in proxmox_vm.worker : name => vm.vmid }
}
