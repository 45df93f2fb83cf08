terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "node" {
  description = "Node that runs the VM. A change migrates it."
  type        = string
  default     = "pve1"
}

variable "cores" {
  description = "Number of cores. A running VM takes another number at its next restart."
  type        = number
  default     = 2
}

resource "proxmox_vm" "app" {
  name  = "app-1"
  node  = var.node
  clone = { vmid = 9000, full = true }

  cpu    = { cores = var.cores }
  memory = { size = 4096 }
  disks  = { scsi0 = { storage = "local-zfs", size = "20G" } }
  agent  = { enabled = true }

  cloud_init = {
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "dhcp" } }
  }

  power_state      = "running"
  reboot_policy    = "auto" # ask the guest to restart when PVE says that a change needs it
  shutdown_timeout = "2m"   # and give it this long

  wait_for   = { agent = true, ipv4 = true, timeout = "5m", on_timeout = "warn" }
  on_destroy = { power_off = "force", timeout = "2m", purge = true }
  timeouts   = { create = "20m", update = "20m", delete = "10m" }

  protection = false # the template has it
}

output "address" {
  value = proxmox_vm.app.ipv4_address
}

output "waiting_for_a_restart" {
  value = proxmox_vm.app.pending_changes
}
