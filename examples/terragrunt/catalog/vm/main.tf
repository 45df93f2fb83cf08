terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

resource "proxmox_vm" "this" {
  # No vmid: every unit runs at the same time as the others, and each takes the next free one.
  name        = var.name
  description = var.description
  tags        = var.tags
  clone       = { vmid = var.template, full = true, storage = var.storage }

  cpu    = { cores = var.cores }
  memory = { size = var.memory }
  disks  = { scsi0 = { size = var.disk } }
  cloud_init = {
    user        = "ops"
    ssh_keys    = var.ssh_keys
    addresses   = { net0 = { ipv4 = var.address, gateway4 = var.gateway } }
    nameservers = [var.gateway]
  }

  protection = false # the template has it
}

output "vmid" {
  value = proxmox_vm.this.vmid
}

output "address" {
  value = var.address
}
