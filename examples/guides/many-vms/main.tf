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

variable "template" {
  description = "VMID of the template."
  type        = number
  default     = 9000
}

locals {
  # What a VM has unless it says otherwise.
  defaults = { node = "pve1", cores = 1, memory = 1024, disk = "8G", tags = [], start = true }

  # One line each; the key is the name. A line that goes takes its VM with it and touches no other.
  vms = {
    web-1   = { ip = "10.0.0.41", tags = ["web"] }
    web-2   = { ip = "10.0.0.42", tags = ["web"] }
    db-1    = { ip = "10.0.0.43", tags = ["db"], cores = 4, memory = 8192, disk = "40G" }
    spare-1 = { ip = "10.0.0.44", start = false }
  }
}

resource "proxmox_vm" "this" {
  for_each = { for name, vm in local.vms : name => merge(local.defaults, vm) }

  node  = each.value.node
  name  = each.key
  tags  = each.value.tags
  clone = { vmid = var.template, full = true, storage = "local-zfs" }

  cpu    = { cores = each.value.cores }
  memory = { size = each.value.memory }
  disks  = { scsi0 = { size = each.value.disk } }
  cloud_init = {
    user        = "ops"
    ssh_keys    = [var.ssh_key]
    addresses   = { net0 = { ipv4 = "${each.value.ip}/24", gateway4 = "10.0.0.1" } }
    nameservers = ["10.0.0.1"]
  }

  power_state = each.value.start ? "running" : "stopped"
  protection  = false # the template has it
}

output "vmids" {
  value = { for name, vm in proxmox_vm.this : name => vm.vmid }
}
