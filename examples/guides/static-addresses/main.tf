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

locals {
  ipv4 = "10.0.0.30"
}

resource "proxmox_vm" "gateway" {
  name  = "gateway-1"
  clone = { vmid = 9000, full = true, storage = "local-zfs" }

  networks = {
    net0 = { model = "virtio", bridge = "vmbr0", macaddr = "BC:24:11:00:00:30" }
    net1 = { model = "virtio", bridge = "vmbr1", tag = 20 }
  }

  cloud_init = {
    user     = "ops"
    ssh_keys = [var.ssh_key]
    # By network device. The gateway stands only where the default route goes.
    addresses = {
      net0 = {
        ipv4     = "${local.ipv4}/24"
        gateway4 = "10.0.0.1"
        ipv6     = "2001:db8::30/64"
        gateway6 = "2001:db8::1"
      }
      net1 = { ipv4 = "192.168.20.1/24" }
    }
    nameservers  = ["10.0.0.1", "2001:db8::1"]
    searchdomain = "example.org"
  }

  protection = false # the template has it
}

# What was configured, known in the plan; proxmox_vm.gateway.ipv4_address is what the guest agent reports.
output "address" {
  value = local.ipv4
}
