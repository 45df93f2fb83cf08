# The objects on the cluster: the team's VMs, and the orphans.
terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

data "proxmox_vms" "team" {
  pool = "team"
}

data "proxmox_orphans" "all" {}

output "vmids" {
  value = data.proxmox_vms.team.vmids
}

output "orphans" {
  value = [for o in data.proxmox_orphans.all.orphans : o.id]
}
