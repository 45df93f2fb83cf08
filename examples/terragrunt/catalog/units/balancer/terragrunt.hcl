include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../catalog//vm"
}

# Where nothing is applied yet the mocks stand in, so that a plan of the whole stack works; an apply never takes them.
dependency "web" {
  config_path = values.web

  mock_outputs = {
    vmid    = 100
    address = "192.0.2.1/24"
  }
  mock_outputs_allowed_terraform_commands = ["init", "validate", "plan"]
}

inputs = {
  name        = values.name
  tags        = ["balancer"]
  address     = values.address
  description = "Balances VM ${dependency.web.outputs.vmid} at ${dependency.web.outputs.address}"
}
