terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

variable "endpoint" {
  type = string
}

variable "api_token" {
  type      = string
  sensitive = true
}

variable "ca_certificate" {
  type = string
}

variable "ssh_host" {
  type = string
}

variable "ssh_port_pve1" {
  type = number
}

variable "ssh_port_pve2" {
  type = number
}

variable "ssh_private_key" {
  type      = string
  sensitive = true
}

variable "ssh_known_hosts" {
  type = string
}

provider "proxmox" {
  endpoint       = var.endpoint
  api_token      = var.api_token # a token with a least-privilege role, not root
  ca_certificate = var.ca_certificate

  # Only for operations that PVE allows root on the node alone: taking the lock off a VM whose task died.
  ssh = {
    username    = "root"
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
    nodes = {
      pve1 = { address = var.ssh_host, port = var.ssh_port_pve1 }
      pve2 = { address = var.ssh_host, port = var.ssh_port_pve2 }
    }
  }
}
