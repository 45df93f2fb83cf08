terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

variable "endpoint" {
  type = string
}

variable "api_token" {
  type      = string
  sensitive = true
}

provider "proxmox" {
  endpoint  = var.endpoint
  api_token = var.api_token
  insecure  = true # it has no argument for a CA's certificate
}

resource "proxmox_virtual_environment_vm" "web" {
  node_name = "pve1"
  vm_id     = 101
  name      = "web"

  clone {
    vm_id = 9000
    full  = true
  }

  initialization {
    datastore_id = "local-zfs"
    user_account {
      username = "ops"
    }
    ip_config {
      ipv4 {
        address = "10.0.0.5/24"
        gateway = "10.0.0.1"
      }
    }
  }
}
