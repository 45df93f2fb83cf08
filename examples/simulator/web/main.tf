# A module such as a team has: a web server from the golden template. tests/ tries it against the simulated cluster.
terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

variable "name" {
  type = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]*$", var.name))
    error_message = "A name is lower case letters, digits and dashes."
  }
}

variable "cores" {
  type    = number
  default = 2
}

resource "proxmox_vm" "web" {
  name  = var.name
  pool  = "team"
  tags  = ["web"]
  clone = { vmid = 9000 }

  cpu    = { cores = var.cores }
  memory = { size = 2048 }
  disks = {
    scsi0 = { size = "10G" }
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
}

output "vmid" {
  value = proxmox_vm.web.vmid
}

output "mac" {
  value = proxmox_vm.web.networks.net0.macaddr
}
