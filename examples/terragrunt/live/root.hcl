# What all units have in common. A unit is a directory below a cluster's.
locals {
  cluster = read_terragrunt_config(find_in_parent_folders("cluster.hcl")).locals
}

# The provider of each unit: one process for each, none knowing of the others. The token comes from the environment
# (PROXMOX_VE_API_TOKEN), so that no file has it.
generate "provider" {
  path      = "provider.tf"
  if_exists = "overwrite_terragrunt"
  contents  = <<-EOT
    provider "proxmox" {
      endpoint   = "${local.cluster.endpoint}"
      vmid_range = { min = ${local.cluster.vmids.min}, max = ${local.cluster.vmids.max} }
    }
  EOT
}

# One state for each unit. A backend that locks and keeps versions goes here in the place of local.
remote_state {
  backend = "local"
  generate = {
    path      = "backend.tf"
    if_exists = "overwrite_terragrunt"
  }
  config = {
    path = "${get_parent_terragrunt_dir()}/.state/${path_relative_to_include()}/terraform.tfstate"
  }
}

# Inputs that a unit may override.
inputs = {
  template = local.cluster.template
  storage  = local.cluster.storage
  gateway  = local.cluster.gateway
  ssh_keys = local.cluster.ssh_keys
}
