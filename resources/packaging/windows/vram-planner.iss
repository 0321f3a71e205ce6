; Inno Setup 6: an installer for one person, without administrator's rights. `build.py installer` fills in the definitions.
#ifndef Version
  #error Run build.py installer, which defines Version, Frozen and Out.
#endif

[Setup]
AppId={{7C0B1C5E-6C0B-4D0C-9E39-5C1C9E7F3A52}
AppName=VRAM Planner
AppVersion={#Version}
AppVerName=VRAM Planner {#Version}
AppPublisher=VRAM Planner
DefaultDirName={autopf}\VRAM Planner
DefaultGroupName=VRAM Planner
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
LicenseFile={#Frozen}\licences\vram-planner\LICENSE
SetupIconFile={#Icon}
UninstallDisplayIcon={app}\vram-planner-window.exe
OutputDir={#Out}
OutputBaseFilename=vram-planner-{#Version}-windows-x64
Compression=lzma2/max
SolidCompression=yes
WizardStyle=modern
ChangesAssociations=yes
ChangesEnvironment=yes
CloseApplications=yes
#ifdef SignCommand
SignTool=given {#SignCommand}
SignedUninstaller=yes
#endif

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"
Name: "de"; MessagesFile: "compiler:Languages\German.isl"

[Tasks]
Name: "desktopicon"; Description: "{cm:CreateDesktopIcon}"; GroupDescription: "{cm:AdditionalIcons}"; Flags: unchecked
Name: "path"; Description: "Add the command vram-planner to the PATH"; Flags: unchecked

[Files]
Source: "{#Frozen}\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[InstallDelete]
; Files of an older version must not stay between those of the new one.
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{group}\VRAM Planner"; Filename: "{app}\vram-planner-window.exe"
Name: "{autodesktop}\VRAM Planner"; Filename: "{app}\vram-planner-window.exe"; Tasks: desktopicon

[Registry]
Root: HKA; Subkey: "Software\Classes\.vramplan\OpenWithProgids"; ValueType: string; ValueName: "VRAMPlanner.plan"; ValueData: ""; Flags: uninsdeletevalue uninsdeletekeyifempty
Root: HKA; Subkey: "Software\Classes\VRAMPlanner.plan"; ValueType: string; ValueName: ""; ValueData: "VRAM plan"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\VRAMPlanner.plan\DefaultIcon"; ValueType: string; ValueName: ""; ValueData: "{app}\vram-planner-window.exe,0"
Root: HKA; Subkey: "Software\Classes\VRAMPlanner.plan\shell\open\command"; ValueType: string; ValueName: ""; ValueData: """{app}\vram-planner-window.exe"" ""%1"""
Root: HKCU; Subkey: "Environment"; ValueType: expandsz; ValueName: "Path"; ValueData: "{olddata};{app}"; Tasks: path; Check: NotOnPath

[Run]
Filename: "{app}\vram-planner-window.exe"; Description: "{cm:LaunchProgram,VRAM Planner}"; Flags: nowait postinstall skipifsilent

[Code]
function NotOnPath: Boolean;
var
  Path: string;
begin
  if not RegQueryStringValue(HKCU, 'Environment', 'Path', Path) then
    Path := '';
  Result := Pos(';' + Uppercase(ExpandConstant('{app}')) + ';', ';' + Uppercase(Path) + ';') = 0;
end;

procedure CurUninstallStepChanged(Step: TUninstallStep);
var
  Path, Own: string;
begin
  if Step <> usPostUninstall then
    exit;
  if not RegQueryStringValue(HKCU, 'Environment', 'Path', Path) then
    exit;
  Own := ';' + ExpandConstant('{app}');
  if Pos(Uppercase(Own), Uppercase(Path)) > 0 then
  begin
    Delete(Path, Pos(Uppercase(Own), Uppercase(Path)), Length(Own));
    RegWriteExpandStringValue(HKCU, 'Environment', 'Path', Path);
  end;
end;
