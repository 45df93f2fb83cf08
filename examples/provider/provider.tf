terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

# Every argument has an environment variable, so this block may be empty:
#   PROXMOX_VE_ENDPOINT=https://pve1.example.org:8006
#   PROXMOX_VE_API_TOKEN=terraform@pve!provider=00000000-0000-0000-0000-000000000000
provider "proxmox" {}
